"""`--verify`: rewritten modules run next to the original, for all commands that rewrite."""
