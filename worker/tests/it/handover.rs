mod answers;
mod kill;
mod lane;
mod random;
mod scale;
mod share;
mod support;
mod withdrawal;
