/** What a key is worth is seen once, by who made it. */
export interface MadeKey {
  key: string;
  name: string;
}
