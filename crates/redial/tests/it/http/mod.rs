mod faults;
mod layer;
mod replay;
mod transport;
mod wire;
