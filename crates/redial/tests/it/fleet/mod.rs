mod encrypted;
mod faults;
mod redis;
mod retry;
mod rig;
mod script;
mod simulated;
mod world;
