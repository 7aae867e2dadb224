//! How things of jobs are named: a chunk on its queue, the queue itself, the share that it is a turn of, and the key of a row.

use uuid::Uuid;

use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::{JobId, OrganisationId};
use longshore_kernel::queue::Queue;

/// The name of a chunk on the queue.
#[must_use]
pub fn chunk_name(job: JobId, number: i32) -> String {
    format!("{job}:{number}")
}

/// Reads the name of a chunk.
#[must_use]
pub fn parse_chunk_name(name: &str) -> Option<(JobId, i32)> {
    let (job, number) = name.split_once(':')?;
    Some((JobId::parse(job)?, number.parse().ok()?))
}

/// Number of the chunk that calls the partner.
pub const CALLING: i32 = 0;

/// Where a chunk is put.
#[must_use]
pub fn queue_of(calls_partner: bool) -> Queue {
    if calls_partner { Queue::Partner } else { Queue::Chunk }
}

/// Whose turn it is when work of this organisation is due; of none, a share that all such work has in common: the nil id, as in
/// the column `share` of `job`.
#[must_use]
pub fn share_of(organisation: Option<OrganisationId>) -> Uuid {
    organisation.unwrap_or_default().get()
}

/// 128 bits of a hash of a key: enough that keys collide neither by chance nor by intent.
pub(super) fn hash_of(key: &str) -> Uuid {
    let hash = sha256(key.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_chunk_reads_back() {
        let job = JobId::new();
        assert_eq!(parse_chunk_name(&chunk_name(job, 42)), Some((job, 42)));
        for name in ["", "x:1", &job.to_string(), &format!("{job}:"), &format!("{job}:x")] {
            assert_eq!(parse_chunk_name(name), None, "{name}");
        }
    }
}
