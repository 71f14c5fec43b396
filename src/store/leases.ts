/** Leases of loopback ports, on which apps are published. A lease lasts as long as its app exists. */
export interface PortLeases {
  /**
   * Returns the leased port of the replica. If there is none, leases a free port that is not in `avoid`. Throws
   * `port_taken` if no port is free.
   */
  lease(app: string, replica: number, containerPort: number, avoid?: readonly number[]): number;
  /** Returns the leased port of the replica, without creating a lease; undefined if there is none. */
  get(app: string, replica: number, containerPort: number): number | undefined;
  release(app: string): void;
}

/**
 * Pairs of reserved addresses of the instance's network, which the versions of a replica use in turn. Pair n has the
 * addresses with the numbers 2n and 2n + 1. A lease exists as long as its app, and does not depend on the network.
 */
export interface AddressLeases {
  /**
   * Returns the number of the address pair that the replica leases. If the replica leases none, leases the free pair
   * with the lowest number.
   */
  lease(app: string, replica: number): number;
  /**
   * Returns the number of the address pair that the replica leases, without creating a lease; undefined if there is
   * none.
   */
  get(app: string, replica: number): number | undefined;
  release(app: string): void;
}
