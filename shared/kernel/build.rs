//! A new migration is compiled in: the macro that reads them knows only the files that were there before.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
