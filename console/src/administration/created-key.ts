/** A new API key with its secret, which is shown only once, to its creator. */
export interface CreatedKey {
  key: string;
  name: string;
}
