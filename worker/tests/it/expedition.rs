mod booking;
mod closing;
mod history;
mod import;
mod rows;
mod support;
