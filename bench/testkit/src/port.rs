//! Ports for server processes, which cannot be given a listener, only a number.

pub use longshore_stack::port::free_port;
