/** A snapshot of the environment variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;
