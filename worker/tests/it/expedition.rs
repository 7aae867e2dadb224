mod booking;
mod history;
mod import;
mod parcels;
mod support;
mod turn;
