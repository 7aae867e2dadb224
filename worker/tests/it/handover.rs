mod answers;
mod lane;
mod random;
mod support;
mod withdrawal;
