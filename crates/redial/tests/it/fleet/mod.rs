mod script;
mod simulated;
mod world;
