/** Far above the size of a certificate, also with the description that `openssl x509 -text` adds. */
const MAX_BYTES = 100_000;

/** The certificate of a file in PEM. Rejects with a text for the user. A private key does not leave the browser. */
export async function readCertificate(file: unknown, noun: string): Promise<string> {
  if (!(file instanceof File) || file.size === 0) throw new Error(`Choose the file of the ${noun}.`);
  if (file.size > MAX_BYTES) throw new Error(`The file of the ${noun} is too large for a certificate.`);
  const text = await file.text();
  if (text.includes('PRIVATE KEY'))
    throw new Error(`The file of the ${noun} has a private key. Choose a file without.`);
  const [certificate] = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(text) ?? [];
  if (certificate === undefined) throw new Error(`The file of the ${noun} has no certificate in PEM.`);
  return certificate;
}
