"""Networks of f16 and bf16: what computes in f32, and what is stored in 16 bits."""
