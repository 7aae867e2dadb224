//! Replays the corpus of the fuzz targets: inputs that were interesting or once broke something are read
//! again in every test run.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;

#[path = "../../../fuzz/bodies.rs"]
mod bodies;

fn fuzz() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz"))
}

#[test]
fn the_whole_corpus_is_read_without_a_fault() {
    for (name, target) in bodies::TARGETS {
        let mut replayed = 0;
        for entry in fs::read_dir(fuzz().join("corpus").join(name)).unwrap() {
            let path = entry.unwrap().path();
            // shown by the test harness if the next line panics
            println!("{}", path.display());
            target(&fs::read(path).unwrap());
            replayed += 1;
        }
        assert!(replayed > 0, "{name} has no corpus");
    }
}

#[test]
fn every_target_is_replayed() {
    let files = fs::read_dir(fuzz().join("fuzz_targets")).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let replayed: BTreeSet<String> = bodies::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, replayed);
}

/// A mutation of one byte of an input.
#[derive(Clone, Debug)]
enum Damage {
    Replace(u8),
    Insert(u8),
    Remove,
    Repeat(u8),
}

fn damage() -> impl Strategy<Value = (prop::sample::Index, Damage)> {
    let byte =
        || prop_oneof![any::<u8>(), prop::sample::select(b"\"\\{}[]:,;.=/%@#$'-+0129eE\0\r\n \xff".to_vec())];
    let damage = prop_oneof![
        byte().prop_map(Damage::Replace),
        byte().prop_map(Damage::Insert),
        Just(Damage::Remove),
        (1..64_u8).prop_map(Damage::Repeat),
    ];
    (any::<prop::sample::Index>(), damage)
}

proptest! {
    #[test]
    fn a_damaged_corpus_is_read_without_a_fault(
        target in prop::sample::select(&bodies::TARGETS[..]),
        file in any::<prop::sample::Index>(),
        damages in prop::collection::vec(damage(), 1..8),
    ) {
        let (name, target) = target;
        let files: Vec<_> = fs::read_dir(fuzz().join("corpus").join(name)).unwrap().map(|f| f.unwrap().path()).collect();
        let mut bytes = fs::read(file.get(&files)).unwrap();
        for (place, damage) in damages {
            // one position past the end is included
            let at = place.index(bytes.len() + 1);
            match damage {
                Damage::Replace(byte) if at < bytes.len() => bytes[at] = byte,
                Damage::Remove if at < bytes.len() => {
                    bytes.remove(at);
                }
                Damage::Replace(byte) | Damage::Insert(byte) => bytes.insert(at, byte),
                Damage::Repeat(times) => {
                    let tail = bytes[at..].to_vec();
                    bytes.extend(tail.repeat(usize::from(times)).into_iter().take(4096));
                }
                Damage::Remove => {}
            }
        }
        target(&bytes);
    }
}
