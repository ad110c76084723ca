// The digest of the pages' files: the node writes it here when it starts. Empty where something else serves these files.
export const EDITION = '';
