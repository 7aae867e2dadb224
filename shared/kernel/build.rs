//! Migrations are compiled in. The macro that reads the numbered ones knows only the files that were there before; the
//! functions become a list by name.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=../../migrations");
    let mut files = fs::read_dir("../../migrations/functions")?
        .map(|entry| entry?.path().canonicalize())
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    let list: Vec<_> = files
        .iter()
        .map(|file| {
            let (name, path) =
                (file.file_stem().unwrap_or_default().to_string_lossy(), file.to_string_lossy());
            format!("({name:?}, include_str!({path:?}))")
        })
        .collect();
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&out).join("functions.rs"), format!("[{}]", list.join(", ")))
}
