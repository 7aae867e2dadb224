//! The commands, one file each; [`up`] and [`run`] have those that belong together.

pub(crate) mod dist;
pub(crate) mod fuzz;
pub(crate) mod lines;
pub(crate) mod prepare;
pub(crate) mod release;
pub(crate) mod run;
pub(crate) mod test;
pub(crate) mod up;
pub(crate) mod upgrade;
