mod answers;
mod lane;
mod random;
mod support;
mod trial;
mod withdrawal;
