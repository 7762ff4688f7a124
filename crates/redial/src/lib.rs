//! redial
