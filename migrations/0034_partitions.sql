-- The first partitions; the workers' upkeep makes the later ones.
SELECT history_prepare(7);
