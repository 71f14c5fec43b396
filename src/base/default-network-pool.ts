/** The IPv4 range from which the networks of stacks get their subnets if no other is configured: 1,024 of them. */
export const NETWORK_POOL = "10.213.0.0/16";
