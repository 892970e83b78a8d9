"""What the pictures of all pages share: colors, how tokens are shown, sentences, the components' scripts."""
