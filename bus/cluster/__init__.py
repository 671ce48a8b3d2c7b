"""Several processes that form one bus: their membership, their backlogs, and the calls from one to another."""
