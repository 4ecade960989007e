/** The nodes that are active on one database. */
export interface ActiveNodes {
  /** The name of this node, without a space. */
  self: string;
  /** The names of the nodes whose lease has not ended, with this one and with those that cannot be reached. */
  live(): ReadonlySet<string>;
}
