// What the service's checks need of Node's Buffer, where there is none: how long a text is in UTF-8.
if (globalThis.Buffer === undefined) {
  const encoder = new TextEncoder();
  Object.assign(globalThis, { Buffer: { byteLength: (text: string) => encoder.encode(text).length } });
}
