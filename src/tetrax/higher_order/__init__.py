"""Operations that hold programs or user functions: calls, control flow, custom rules, callbacks."""
