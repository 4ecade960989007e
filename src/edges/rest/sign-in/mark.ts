/** The product's mark, as `console/src/icon.svg` has it: the compiled service has no sources of the console. */
export const MARK =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><title>Twinkeep</title><rect width="32" height="32" rx="9" fill="#0f6f6a"/><circle cx="11.5" cy="16" r="5" fill="none" stroke="#fff" stroke-width="2.4"/><circle cx="20.5" cy="16" r="5" fill="#9ff0e0"/></svg>\n';
