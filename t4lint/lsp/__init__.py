"""The language server: the engine over open buffers. `t4lint server` starts it (extra `lsp`)."""
