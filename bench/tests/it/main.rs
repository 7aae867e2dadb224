//! The fake outside world, tested over real HTTP; and the proof of the main job, on processes that are killed.

mod fetch;
mod proof;
mod receiver;
