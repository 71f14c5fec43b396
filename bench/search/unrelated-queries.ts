/** Questions of a user that no page of the manual answers. They were written without searching the manual for them. */
export const unrelatedQueries: readonly string[] = `
when was the boiler serviced
what did the dentist say about my wisdom tooth
how much did we pay for the summer house last year
which wine goes with roast lamb
when does my passport expire
what is the name of the neighbour's daughter
how long does the bread dough have to rest
what did Martha want for her birthday
which vaccinations do we need for Kenya
who repaired the washing machine
when do the bins get collected in December
what was the score of the football match on Sunday
how tall is the oak in the garden
which plants must not freeze in winter
what do I still owe my sister
when is the parents' evening at school
what was the colour of paint in the kitchen
how do I make my grandmother's apple cake
which doctor did the knee operation
when does the lease of the flat end
what was the car's mileage at the last inspection
where did we hide the Christmas presents
how many guests come to the wedding
what did the lawyer advise about the inheritance
which hotel did we like in Lisbon
who lent me the hedge trimmer
what are the opening hours of the swimming pool
which pills does the cat get in the morning
when did the heating oil cost the least
what is the nickname of my uncle in Norway
how far did I run on Tuesday
which novel did the book club choose
when is the piano lesson
what is the recipe for pumpkin soup
who won the chess tournament at work
which insurance pays for the broken window
when were the tyres of my bicycle pumped up
what did the landlord promise about the balcony
how much sugar does plum jam need
which train do I take to Vienna on Friday
`
  .trim()
  .split("\n");
