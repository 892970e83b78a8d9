"""The static edition: pages as plain files, with the components and the recorded runs of the app, and no server."""
