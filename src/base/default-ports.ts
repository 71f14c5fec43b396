/** On which Berth listens on this machine where nobody says otherwise. */
export const defaultPorts = { api: 7776, system: 7777, companion: 7778 } as const;
