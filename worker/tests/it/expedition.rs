mod booking;
mod history;
mod import;
mod support;
mod together;
