/** Algorithms of device keys (contract §4). */
export const signingAlgs = ['hmac-sha256', 'ed25519'] as const;
export type SigningAlg = (typeof signingAlgs)[number];
