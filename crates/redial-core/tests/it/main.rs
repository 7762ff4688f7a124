//! The engine, through its public interface.
