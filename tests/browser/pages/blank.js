// A page with the client in hand, for scripts that a test runs here.
import * as router from '../router.js';

window.router = router;
