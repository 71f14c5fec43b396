/**
 * The IPv4 range from which the networks of stacks get their subnets if no other range is configured. It contains 1,024
 * such subnets.
 */
export const NETWORK_POOL = "10.213.0.0/16";
