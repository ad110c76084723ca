// The form of what tabs and the engine say to each other. Another one is refused by both, each of which may be the older.
export const TALK = 1;
export const OTHER_TALK = 'this page is of another version than the others that are open: close them, then load it again';
