mod layer;

mod wire;
