"""When an entry fires: schedules, their fire times and how they are stored, without Redis or a clock."""
