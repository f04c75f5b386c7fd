"""HLO quoted in messages: instructions, whole or cut."""
