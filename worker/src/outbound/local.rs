//! Recognises errors of this machine, which are not the fault of a destination.

use std::error::Error as StdError;
use std::io;

/// Error numbers by which the operating system refuses one more connection. They are those of Linux, equal on
/// every processor that this is built for.
const NO_ROOM: [i32; 5] = [
    12,  // ENOMEM
    23,  // ENFILE: too many open files of all processes
    24,  // EMFILE: too many open files of this process
    99,  // EADDRNOTAVAIL: no free local port
    105, // ENOBUFS
];

/// Whether this machine caused an error.
pub(super) fn is_local(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| {
        error.kind() == io::ErrorKind::OutOfMemory
            || error.raw_os_error().is_some_and(|number| NO_ROOM.contains(&number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_this_machine_are_distinguished_from_those_of_a_destination() {
        for number in NO_ROOM {
            assert!(is_local(&io::Error::from_raw_os_error(number)), "{number}");
        }
        for kind in
            [io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset, io::ErrorKind::TimedOut]
        {
            assert!(!is_local(&io::Error::from(kind)), "{kind:?}");
        }
    }
}
