/** What a key is worth is seen once, by who made it. */
export interface CreatedKey {
  key: string;
  name: string;
}
