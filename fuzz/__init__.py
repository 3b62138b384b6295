"""Bad input, made on purpose: whatever is read must be read rightly or refused in a sentence."""
