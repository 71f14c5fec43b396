/** The environment of a process, as it was when somebody looked. */
export type Environment = Readonly<Record<string, string | undefined>>;
