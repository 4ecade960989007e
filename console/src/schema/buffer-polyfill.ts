// The service's validation code needs `Buffer.byteLength`, which browsers do not have: the length of a text in UTF-8.
if (globalThis.Buffer === undefined) {
  const encoder = new TextEncoder();
  Object.assign(globalThis, { Buffer: { byteLength: (text: string) => encoder.encode(text).length } });
}
