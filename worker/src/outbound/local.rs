//! Trouble of this machine, which says nothing of a destination.

use std::error::Error as StdError;
use std::io;

/// What the operating system says where it has no room for one more connection. The numbers are those of Linux, which are
/// the same on every processor that it is built for here.
const NO_ROOM: [i32; 5] = [
    12,  // ENOMEM
    23,  // ENFILE: too many open files of all processes
    24,  // EMFILE: of this one
    99,  // EADDRNOTAVAIL: no free local port
    105, // ENOBUFS
];

/// Whether an error is of this machine.
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
    fn no_room_is_told_from_what_a_destination_does() {
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
