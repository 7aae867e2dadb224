mod booking;
mod history;
mod import;
mod kill;
mod parcels;
mod support;
mod together;
mod turn;
