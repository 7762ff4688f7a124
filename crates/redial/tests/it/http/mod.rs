mod bad_input;
mod faults;
mod grpc;
mod layer;
mod replay;
mod reqwest;
mod transport;
mod wire;
