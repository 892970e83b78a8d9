"""What the pictures of all pages share: colours, how tokens are shown, sentences, the components' scripts."""
